"""Requests become tokens: KV pool, scheduler, sampler guests and the thread that runs the steps."""
