/* Evaluates each Python frame below a C function of its part, so that callgrind can tell parts apart.

   All Python code runs in one C function, the interpreter's loop. PEP 523 lets another function
   evaluate frames. This one asks which part the code of a frame belongs to. If the frame enters
   another part, it is evaluated by a function whose name has the numbers of both parts. callgrind
   then counts for each such function what it and all that it calls take. parts.py compiles this
   file, and gives it the number of parts, these functions and their table. */

#include <Python.h>
#include <valgrind/callgrind.h>

typedef struct _PyInterpreterFrame Frame;
typedef PyObject *Evaluate(PyThreadState *, Frame *, int);
extern Evaluate _PyEval_EvalFrameDefault;
extern void _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState *, Evaluate *);

#if PY_VERSION_HEX < 0x030c0000
#define GetExtra _PyCode_GetExtra
#define SetExtra _PyCode_SetExtra
#define RequestIndex _PyEval_RequestCodeExtraIndex
#else
#define GetExtra PyUnstable_Code_GetExtra
#define SetExtra PyUnstable_Code_SetExtra
#define RequestIndex PyUnstable_Eval_RequestCodeExtraIndex
#endif

#define ENTER(outer, inner) \
    static __attribute__((noinline)) PyObject *part_##outer##_##inner( \
        PyThreadState *thread, Frame *frame, int thrown) \
    { \
        PyObject *result = _PyEval_EvalFrameDefault(thread, frame, thrown); \
        current = outer; /* also keeps the compiler from jumping to the function above */ \
        return result; \
    }

/* Frames of the part 0 belong to the part that calls them. */
static int current = 1;
FUNCTIONS
static Evaluate *const enter[PARTS][PARTS] = TABLE;

static PyObject *part_of;
static Py_ssize_t extra_index;

static PyCodeObject *code_of(Frame *frame)
{
#if PY_VERSION_HEX < 0x030c0000
    return ((PyCodeObject **)frame)[4]; /* f_code of 3.11, after f_func and three dictionaries */
#else
    PyObject *code = PyUnstable_InterpreterFrame_GetCode(frame);
    Py_DECREF(code); /* the frame keeps it */
    return (PyCodeObject *)code;
#endif
}

/* Ask Python for the part of a code that is new, and remember it with the code, plus one. */
static long find_part(PyObject *code)
{
    static int finding = 0;
    if (finding)
        return 0;
    finding = 1;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *number = PyObject_CallFunctionObjArgs(part_of, code, NULL);
    long part = PyLong_AsLong(number);
    Py_DECREF(number);
    SetExtra(code, extra_index, (void *)(part + 1));
    PyErr_Restore(type, value, traceback);
    finding = 0;
    return part;
}

static PyObject *evaluate(PyThreadState *thread, Frame *frame, int thrown)
{
    void *extra = NULL;
    PyObject *code = (PyObject *)code_of(frame);
    GetExtra(code, extra_index, &extra);
    long part = extra ? (long)extra - 1 : find_part(code);
    if (!enter[current][part])
        return _PyEval_EvalFrameDefault(thread, frame, thrown);
    Evaluate *function = enter[current][part];
    current = part;
    return function(thread, frame, thrown);
}

/* From now on, evaluate frames by the part of their code, whose number `ask` returns. */
void tell_parts_apart(PyObject *ask)
{
    Py_INCREF(ask);
    part_of = ask;
    extra_index = RequestIndex(NULL);
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), evaluate);
}

void start_counting(void)
{
    CALLGRIND_START_INSTRUMENTATION;
}

void stop_counting(void)
{
    CALLGRIND_STOP_INSTRUMENTATION;
}
