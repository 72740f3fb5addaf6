// LeakSanitizer looks for leaks when the program ends, after Open MPI has unloaded its plugins;
// their code is then "<unknown module>", which no suppression can name. So nothing is unloaded.

extern "C" int dlclose(void*) { return 0; }
