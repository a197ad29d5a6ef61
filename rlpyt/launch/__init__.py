"""Many runs on one machine: what a sweep expands to, slots of hardware, a queue, its journal."""
