from tests.malformed.examples import EXAMPLES


def test_the_number_of_examples():
    assert sum(EXAMPLES.values()) == 2000
