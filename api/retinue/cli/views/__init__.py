"""How runs, trees and events look on a terminal."""
