// Writes the counters of a process that ends by _exit(2), which runs no exit handler: the processes of tarpon below the first one.
// The linker puts __wrap__exit in the place of _exit (--wrap).

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int __llvm_profile_write_file(void);
void __llvm_profile_set_filename(const char *name);

_Noreturn void __wrap__exit(int status) {
    // Static, as the runtime keeps the pointer. A forked process would write to the file of its parent, whose name it has inherited.
    static char name[4096];
    snprintf(name, sizeof name, "%s/%ld.profraw", PROFILE_DIRECTORY, (long)getpid());
    __llvm_profile_set_filename(name);
    __llvm_profile_write_file();
    // The same function under a name that the linker leaves alone. In a static library _exit itself is found by nothing any more.
    _Exit(status);
}
