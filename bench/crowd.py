"""Many followers of one run's log, in a process of their own: `python -m bench.crowd URL RUN FOLLOWERS`.

Says `ready` when all of them receive, and when the run has ended, as JSON, how many lines each was
given. They do no more than count: what is measured is the server. The key is in MUSTER_API_KEY.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from urllib.parse import urlsplit

_NEWLINE = b"\\n"  # as it is in the JSON of an event


class Follower:
    def __init__(self) -> None:
        self.receives = asyncio.Event()
        self.lines = 0

    async def follow(self, url: str, run: str) -> None:
        place = urlsplit(url)
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        request = [
            f"GET /api/v1/runs/{run}/logs/stream HTTP/1.1",
            f"Host: {place.netloc}",
            f"Authorization: Bearer {os.environ['MUSTER_API_KEY']}",
            "Accept: text/event-stream",
            "Connection: close",
        ]
        writer.write("\r\n".join([*request, "", ""]).encode())
        rest = b""
        while piece := await reader.read(1 << 16):
            data = rest + piece
            self.lines += data.count(_NEWLINE)
            rest = b"\\" if data.endswith(b"\\") else b""
            if self.lines:
                self.receives.set()
        writer.close()


async def main(url: str, run: str, count: int) -> None:
    followers = [Follower() for _ in range(count)]
    async with asyncio.TaskGroup() as group:
        for follower in followers:
            group.create_task(follower.follow(url, run))
        for follower in followers:
            await follower.receives.wait()
        print("ready", flush=True)
    print(json.dumps([follower.lines for follower in followers]), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
