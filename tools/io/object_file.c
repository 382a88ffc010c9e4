/* object_file.c - the headers of an ELF file, and whether all segments that they speak of are in it. */
#include "object_file.h"
#include "text.h"
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

static bool read_at(int fd, void *out, size_t size, unsigned long long at)
{
    return pread(fd, out, size, (off_t)at) == (ssize_t)size;
}

static bool is_whole(int fd, unsigned long long size)
{
    ElfW(Ehdr) header;
    ElfW(Phdr) segment;
    if (!read_at(fd, &header, sizeof header, 0) || header.e_phentsize != sizeof segment)
        return false;
    for (unsigned i = 0; i < header.e_phnum; i++) {
        unsigned long long at = header.e_phoff + i * sizeof segment;
        if (at > size || !read_at(fd, &segment, sizeof segment, at))
            return false;
        if (segment.p_offset > size || segment.p_filesz > size - segment.p_offset)
            return false;
    }
    return true;
}

static int check_file(int fd, const char *path, failure *f)
{
    struct stat about;
    char magic[SELFMAG];
    if (fstat(fd, &about))
        return fail(f, EX_IOERR, "cannot read %s: %s", path, strerror(errno));
    if (!S_ISREG(about.st_mode))
        return fail(f, EX_NOINPUT, "cannot read %s: found %s, expected a shared object", path,
                    S_ISDIR(about.st_mode) ? "a directory" : "something that is not a file");
    if (!read_at(fd, magic, sizeof magic, 0) || memcmp(magic, ELFMAG, SELFMAG) != 0)
        return fail(f, EX_DATAERR, "%s is not a shared object: cc -shared -fPIC -o model.so %s makes one", path,
                    ends_in(path, ".c") ? path : "model.c");
    if (!is_whole(fd, (unsigned long long)about.st_size))
        return fail(f, EX_DATAERR, "%s is cut short or damaged, or not linked: cc -shared makes a shared object of it",
                    path);
    return 0;
}

int check_object(const char *path, failure *f)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return fail(f, EX_NOINPUT, "cannot open %s: %s", path, strerror(errno));
    int code = check_file(fd, path, f);
    close(fd);
    return code;
}
