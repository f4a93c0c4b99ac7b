"""A second fuzzer: libFuzzer, which follows what leads to native code not reached before."""
