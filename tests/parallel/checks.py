"""What the tests of groups require: each that fails is printed at once, and the test ends with 1."""
failures = []


def require(holds, what):
    if not holds:
        failures.append(what)
        print(f"FAILED: {what}")
