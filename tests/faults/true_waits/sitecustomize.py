"""Waits that faketime leaves alone, in every process that finds this first.

libfaketime 0.9.10 takes the set-back of the clock off the moment that `time.sleep` names on the
monotonic clock, which it is set to leave as it is; where that is before the machine started, Python
gets EINVAL (wolfcw/libfaketime#426).
"""

import select
import time


def sleep(seconds: float) -> None:
    select.select([], [], [], seconds)


time.sleep = sleep
