"""Fakes and servers for tests of sf, and of your own hooks, gates and playbooks; never imported by sf."""
