// What the sanitizers are told about libraries that are not instrumented; in every test program of
// a sanitized build.

// Here, as the sanitizers look for them by name. NOLINTBEGIN
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions();

// OpenCV asks for USB cameras through a library that keeps what it finds.
const char* __lsan_default_suppressions() { return "leak:libusb"; }

// Video files go through GStreamer, whose locks are not seen. GDAL, one of OpenCV's readers of
// images, takes two locks of its own in either order.
const char* __tsan_default_suppressions() {
  return "race:libgstreamer\nrace:libglib\nrace:libgobject\nrace:libgst\ndeadlock:libgdal\n";
}
// NOLINTEND
