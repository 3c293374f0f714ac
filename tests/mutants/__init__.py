"""Small changes planted in the product, one at a time: do the tests notice? See CONTRIBUTING.md."""
