"""Rules by which CANN changes between several operators for what is one operator here (`form.py`)."""
