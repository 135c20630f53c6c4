import os
import signal

import pytest

from nec_tf.experiments.stopping import StopRequest


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_raised_where_it_is_asked_for_and_not_before(number):
    with StopRequest() as stop:
        stop.check()
        os.kill(os.getpid(), number)
        reached = True
        with pytest.raises(KeyboardInterrupt):
            stop.check()
    assert reached


def test_signals_belong_to_whoever_had_them_before():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with StopRequest():
        assert signal.getsignal(signal.SIGINT) not in before
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == before
