// LeakSanitizer looks for leaks when the program ends, after Open MPI has unloaded its plugins;
// their code is then "<unknown module>", which no suppression can name. So nothing is unloaded.
// Weak, since a program may be given this more than once.

extern "C" __attribute__((weak)) int dlclose(void*) { return 0; }
