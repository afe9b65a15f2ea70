"""Names of JAX's private modules that published packages import. Each is another name of a public one."""
