"""The documentation site: pages that are made from the code and its data, and checks of all pages."""
