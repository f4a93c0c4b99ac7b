"""A coverage-guided fuzzer: libFuzzer, which pursues inputs that reach new native code."""
