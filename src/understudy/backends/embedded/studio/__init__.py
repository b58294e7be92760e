"""The mini studio: its weights, how they are opened, and how they were trained."""
