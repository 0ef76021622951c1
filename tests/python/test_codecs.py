"""fed.codecs: the C library's bytes, residuals and errors, without copies."""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import subprocess
import tempfile
import threading
import unittest

import fed
import numpy as np
from fed import codecs

SPECS = ["float32", "sbc:p=0.01", "3lc:s=1.75", "3lc:s=1+runs", "twobit:t=0.5", "int8", "float16", "topk:p=0.05", "inceptionn:e=10"]
PRESETS = [name for name in codecs.names() if name != "threshold"]  # threshold has none for t
LESS_THAN_A_BIT = ["eden:p=0.008", "eden:p=0.008,scale=tensor"]


def gradient(n=10000, seed=1):
    return np.random.default_rng(seed).laplace(size=n).astype(np.float32)


def numbers(text):
    """Read hexadecimal words; 5*0a stands for five times 0a."""
    made = []
    for word in text.split():
        times, _, value = word.rpartition("*")
        made += [int(value, 16)] * int(times or 1)
    return np.array(made, np.uint32)


class Codecs(unittest.TestCase):
    def test_all_codecs_are_there(self):
        listed = subprocess.run([os.environ["FED_TEST_BIN"] + "/fedcodec", "list"], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertGreaterEqual(len(codecs.names()), 14)
        for name in codecs.names():
            self.assertIn(name, listed)

    def test_the_residual_is_what_the_message_leaves_out(self):
        for spec in SPECS:
            with self.subTest(spec):
                x, residual = gradient(), gradient(seed=2)
                before = residual.copy()
                message = codecs.encode(spec, x, residual=residual)
                y = codecs.decode(message)
                if spec.split(":")[0] not in ("float32", "float16", "int8", "inceptionn"):
                    np.testing.assert_array_equal(residual, (before + x) - y)
                self.assertGreater(np.count_nonzero(y), 0)
                self.assertEqual(y.dtype, np.float32)

    def test_without_a_residual_a_codec_leaves_zeros(self):
        for spec in ["eden", *LESS_THAN_A_BIT, "qsgd", "natural"]:
            with self.subTest(spec):
                x, residual = gradient(), gradient(seed=2)
                message = codecs.encode(spec, x, residual=residual)
                self.assertFalse(residual.any())
                self.assertEqual(message, codecs.encode(spec, gradient() + gradient(seed=2)))
                y = codecs.decode(message)
                x += gradient(seed=2)
                self.assertAlmostEqual(float(np.dot(x, y) / np.dot(x, x)), 1, delta=0.2)

    def test_the_bytes_are_those_of_the_program(self):
        for spec in SPECS + PRESETS + LESS_THAN_A_BIT:
            with self.subTest(spec), tempfile.TemporaryDirectory() as folder:
                x = gradient()
                x.tofile(folder + "/x")
                subprocess.run([os.environ["FED_TEST_BIN"] + "/fedcodec", "encode", "--codec", spec, "--small", "0", folder + "/x", folder + "/m"],
                               check=True, stdout=subprocess.DEVNULL)
                self.assertEqual(codecs.encode(spec, x), pathlib.Path(folder, "m").read_bytes())

    def test_golden_messages(self):
        seen = 0
        for path in sorted(pathlib.Path(os.environ["FED_ROOT"], "tests/vectors/codecs").glob("*.txt")):
            fields = {}
            for line in path.read_text().splitlines():
                key, _, rest = line.strip().partition(" ")
                if line.startswith(" "):
                    fields[last] += " " + line
                elif not line.startswith("#"):
                    last, fields[key] = key, rest
            if not fields.get("input") or not {"spec", "message", "decoded"} <= fields.keys():
                continue
            x = numbers(fields["input"]).view(np.float32)
            message = codecs.encode(fields["spec"], x)
            with self.subTest(path.name):
                self.assertTrue(message.endswith(numbers(fields["message"]).astype(np.uint8).tobytes()))
                np.testing.assert_array_equal(codecs.decode(message).view(np.uint32), numbers(fields["decoded"]))
            seen += 1
        self.assertGreater(seen, 20)

    def test_shapes_and_sums(self):
        x = gradient(600).reshape(20, 30)
        message = codecs.encode("int8", x)
        y = codecs.decode(message, (20, 30))
        self.assertEqual(y.shape, (20, 30))
        np.testing.assert_allclose(y, x, atol=0.1)
        total = np.ones((20, 30), np.float32)
        codecs.decode_add(message, total, 0.5)
        np.testing.assert_allclose(total, 1 + y / 2, rtol=1e-6)
        with self.assertRaisesRegex(ValueError, "600 values"):
            codecs.decode(message, (20, 31))

    def test_wrong_arguments_are_named(self):
        x = gradient(10)
        with self.assertRaisesRegex(fed.Error, "nosuch"):
            codecs.encode("nosuch", x)
        with self.assertRaisesRegex(TypeError, "x is an array of float64"):
            codecs.encode("sbc", x.astype(np.float64))
        with self.assertRaisesRegex(TypeError, "x is list"):
            codecs.encode("sbc", [1.0])
        with self.assertRaisesRegex(ValueError, "x must be contiguous"):
            codecs.encode("sbc", gradient(20)[::2])
        with self.assertRaisesRegex(ValueError, "residual has the shape"):
            codecs.encode("sbc", x, residual=np.zeros(9, np.float32))
        with self.assertRaisesRegex(fed.Error, "0 values"):
            codecs.encode("sbc", np.zeros(0, np.float32))
        x[3] = np.nan
        with self.assertRaisesRegex(fed.Error, "NaN"):
            codecs.encode("sbc", x)

    def test_a_damaged_message_leaves_the_sum_alone(self):
        message = codecs.encode("3lc", gradient(100))
        y = np.ones(100, np.float32)
        for wrong in (b"", message[:-1], message + b"\0", b"\0" + message[1:]):
            with self.assertRaises(fed.Error):
                codecs.decode_add(wrong, y)
            with self.assertRaises(fed.Error):
                codecs.decode(wrong)
        np.testing.assert_array_equal(y, 1)
        with self.assertRaisesRegex(fed.Error, "max_values"):
            codecs.decode(message, max_values=99)

    def test_threads_encode_side_by_side(self):
        wanted, found = codecs.encode("sbc:p=0.01", gradient(200000)), []
        threads = [threading.Thread(target=lambda: found.append(codecs.encode("sbc:p=0.01", gradient(200000)))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [wanted] * 4)

    def test_tensors_of_pytorch_share_their_memory(self):
        try:
            import torch
        except ImportError:
            self.skipTest("PyTorch is not installed")
        x, residual = torch.from_numpy(gradient()), torch.zeros(10000)
        message = codecs.encode("sbc:p=0.01", x, residual=residual)
        self.assertGreater(int(torch.count_nonzero(residual)), 9000)
        self.assertEqual(message, codecs.encode("sbc:p=0.01", gradient()))


if __name__ == "__main__":
    unittest.main()
