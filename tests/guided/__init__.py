"""A second fuzzer: libFuzzer, which follows what leads to native code that no input reached before."""
