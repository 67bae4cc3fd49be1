"""What commands show of groups, pipelines and records, as rows."""
