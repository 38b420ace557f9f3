"""Networks that come quantised: what the importer finds becomes operators of integers."""
