// Sanitizer options for libraries that are not instrumented; in every test program and command of a
// sanitized build.

// Here, as the sanitizers look for them by name. NOLINTBEGIN
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_options();

// OpenCV asks for USB cameras through a library that keeps what it finds.
const char* __lsan_default_suppressions() { return "leak:libusb"; }

// Video files go through GStreamer, whose locks are not seen. GDAL, one of OpenCV's readers of
// images, takes two locks of its own in either order. OpenCV blurs on TBB's threads. The C library
// keeps the time zone under a lock of its own. oneDNN computes on the threads of OpenMP's library,
// whose beginning and end of a parallel region are not seen.
const char* __tsan_default_suppressions() {
  return "race:libgstreamer\nrace:libglib\nrace:libgobject\nrace:libgst\nrace:libtbb\n"
         "deadlock:libgdal\nrace:tzset_internal\nrace:libdnnl\n";
}

// Some tests try calls that may hang in a child process, which starts threads. `serve` exits
// immediately while it loads: its threads end with the process.
const char* __tsan_default_options() { return "die_after_fork=0:report_thread_leaks=0"; }
// NOLINTEND
