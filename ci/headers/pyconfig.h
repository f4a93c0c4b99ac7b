/* The settings that CPython's headers need, for systems whose own pyconfig.h isn't in any package index. It
   assumes 64 bits and a compiler that defines the sizes of types. */
#define SIZEOF_SHORT __SIZEOF_SHORT__
#define SIZEOF_INT __SIZEOF_INT__
#ifndef __APPLE__ /* pymacconfig.h defines these */
#define SIZEOF_LONG __SIZEOF_LONG__
#define SIZEOF_VOID_P __SIZEOF_POINTER__
#define SIZEOF_SIZE_T __SIZEOF_SIZE_T__
#endif
#define SIZEOF_LONG_LONG __SIZEOF_LONG_LONG__
#define SIZEOF_WCHAR_T __SIZEOF_WCHAR_T__
#define SIZEOF_FLOAT __SIZEOF_FLOAT__
#define SIZEOF_DOUBLE __SIZEOF_DOUBLE__
#define SIZEOF_TIME_T 8
#define SIZEOF_FPOS_T 8
#define SIZEOF_PID_T 4
#define ALIGNOF_LONG __SIZEOF_LONG__
#define ALIGNOF_SIZE_T __SIZEOF_SIZE_T__
#define ALIGNOF_MAX_ALIGN_T __BIGGEST_ALIGNMENT__
#define HAVE_ERRNO_H 1
#define HAVE_STDARG_PROTOTYPES 1
#define HAVE_STDDEF_H 1
#define HAVE_SYS_STAT_H 1
#define HAVE_WCHAR_H 1
#define STDC_HEADERS 1
#ifdef _WIN32
#define MS_WIN32
#define MS_WIN64
#define MS_WINDOWS
#define MS_COREDLL
#define NT_THREADS 1
#define Py_ENABLE_SHARED 1
#define SIZEOF_OFF_T 4
typedef long long Py_ssize_t;
#define HAVE_PY_SSIZE_T 1
#define PY_SSIZE_T_MAX 9223372036854775807LL
#else
#define HAVE_CLOCK_GETTIME 1
#define HAVE_PTHREAD_H 1
#define HAVE_SSIZE_T 1
#define HAVE_SYS_SELECT_H 1
#define HAVE_SYS_TIME_H 1
#define HAVE_SYS_TYPES_H 1
#define HAVE_UNISTD_H 1
#define SIZEOF_OFF_T 8
#endif
