"""The composition root: everything the surfaces may call. Heavy parts are imported where they are used."""
