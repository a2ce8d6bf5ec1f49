"""The shapes of bodies and answers, as the document of the API shows them."""
