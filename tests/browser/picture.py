"""Take a picture of the upper part of a coordinator's page, as docs/page.png is one of the demo's:

    deploy/demo.sh & python3 tests/browser/picture.py https://127.0.0.1:8443/ docs/page.png 'Round 5[0-9]'

It waits until the page's first line fits the last argument, a regular expression of JavaScript.
"""
# SPDX-License-Identifier: Apache-2.0
import sys

import webdriver

WIDTH, HEIGHT = 1000, 830


def main(url, path, line):
    browser = webdriver.Browser()
    try:
        browser.look_like(WIDTH, HEIGHT, False, False)
        browser.open(url)
        browser.wait(f"return new RegExp({line!r}).test(document.getElementById('headline').textContent)", line, 1800)
        browser.run("document.documentElement.style.overflow = 'hidden'")
        browser.screenshot(path, whole=False)
    finally:
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
