"""Requests become tokens: KV pool, scheduler, sampler guests and the thread that turns the crank."""
