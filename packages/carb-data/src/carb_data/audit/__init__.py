"""What makes a data set believable: attacks that must fail, and the checks of a fact bank."""
