"""Members of consumer groups, the offsets that groups commit, and the administration of groups."""
