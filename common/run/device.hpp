#pragma once

#include <string>

namespace ddp {

struct Device {
  int index;
  std::string name;
  bool simulated;  ///< it says so in its name
};

/// Makes the device the current one of this thread. Throws DeviceError where none is visible, with
/// what to do about it, or with the index asked for and the number of devices. Never falls back to
/// another device.
Device select_device(int index);

}  // namespace ddp
