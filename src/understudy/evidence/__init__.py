"""What a data protection officer is asked for about a release, a selection or a sanitize job."""
