"""The parts that the lifecycle facade is made of, each in two colours."""
