"""Pictures, one module for each kind; each picture is shown with its alternative text."""
