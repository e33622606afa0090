# SPDX-License-Identifier: Apache-2.0
"""As much of libpawl as the pitfalls need, through ctypes."""

import ctypes
import os

BUILD = os.environ.get("BUILD_DIR") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build")
FOREVER = 2**63 - 1
TASK, TRACE = 1, 4
STATES = ["not held", "held", "suspect", "lost"]


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("text", ctypes.c_char * 512)]


class Options(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("flags", ctypes.c_uint),
        ("lease_ms", ctypes.c_int64),
        ("label", ctypes.c_char_p),
        ("command", ctypes.c_char_p),
        ("log", ctypes.c_void_p),
        ("log_data", ctypes.c_void_p),
    ]


ACQUIRED = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(Error), ctypes.c_void_p)
LOG = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
library = ctypes.CDLL(os.path.join(BUILD, "src", "libpawl.so.0"))
library.pawl_error_name.restype = ctypes.c_char_p
library.pawl_token.restype = ctypes.c_uint64
library.pawl_remaining_ms.restype = ctypes.c_int64


def name_of(code):
    return library.pawl_error_name(code).decode().removeprefix("PAWL_")


class Client:
    def __init__(self, url, lease_ms=0, log=None):
        """log(text): called with every step, from any thread."""
        self.handle, error = ctypes.c_void_p(), Error()
        options = Options(size=ctypes.sizeof(Options), lease_ms=lease_ms, label=b"pitfalls")
        if log:
            self.log = LOG(lambda level, text, data: log(text.decode()))
            options.flags, options.log = TRACE, ctypes.cast(self.log, ctypes.c_void_p)
        if library.pawl_open(url.encode(), ctypes.byref(options), ctypes.byref(self.handle), ctypes.byref(error)) < 0:
            raise RuntimeError(error.text.decode())

    def mutex(self, name, flags=0):
        return Lock(self, name, flags)

    def dispatch(self):
        return library.pawl_dispatch(self.handle)

    def close(self):
        library.pawl_close(self.handle)


class Lock:
    def __init__(self, client, name, flags):
        self.client, self.handle, error = client, ctypes.c_void_p(), Error()
        if library.pawl_mutex_new(client.handle, name.encode(), flags, ctypes.byref(self.handle), ctypes.byref(error)) < 0:
            raise RuntimeError(error.text.decode())

    def acquire(self, timeout_ms):
        """'held TOKEN', or the name of the error."""
        code = library.pawl_acquire(self.handle, ctypes.c_int64(timeout_ms), None)
        return name_of(code) if code < 0 else f"held {self.token()}"

    def start(self, done):
        """Acquire, and have done(result) called by the client's dispatch(). Keeps a reference to what the library may call."""
        self.done = ACQUIRED(lambda lock, result, error, data: done(result))
        code = library.pawl_acquire_start(self.handle, 0, 1, ctypes.c_int64(FOREVER), self.done, None, None)
        if code < 0:
            raise RuntimeError(name_of(code))

    def release(self):
        code = library.pawl_release(self.handle, None)
        return name_of(code) if code < 0 else "released"

    def state(self):
        return STATES[library.pawl_state(self.handle)]

    def token(self):
        return library.pawl_token(self.handle)
