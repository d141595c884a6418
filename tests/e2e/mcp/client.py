"""Calls every tool of the run that it is started in, and writes what came of it to TENURE_RESULT, as JSON."""

import asyncio
import json
import os
import subprocess

from mcp import Client, StdioServerParameters

CALLS = [
    ("note", {"text": "-- half way"}),
    ("effect", {"key": "greet/1", "command": ["sh", "-c", "echo done"], "in_doubt": "retry", "no_undo": True}),
    ("effect", {"key": "greet/1", "command": ["sh", "-c", "echo again"], "in_doubt": "retry", "no_undo": True}),
    ("send", {"agent": "idle", "body": "@fix it"}),
    ("spawn", {"agent": "idle", "body": "look", "key": "once"}),
    ("remember", {"text": "the fleet was busy"}),
    ("spend", {"tokens": "7", "cost": "0.01"}),
    ("set_down", {"until": "2h", "waiting_for": "the --review"}),
    ("status", {}),
    ("send", {"agent": "nobody", "body": "fix it"}),
    ("note", {}),
    ("wait", {"until": "yesterday"}),
]


def speak_nonsense():
    """What a server answers to lines that are no messages."""
    said = b'nonsense\n{"jsonrpc": "2.0", "id": 1}\n' + b'"' + b"x" * (1 << 21) + b'"\n'
    ended = subprocess.run(["tenure", "mcp"], input=said, capture_output=True, timeout=300, check=False)
    return [json.loads(line)["error"]["code"] for line in ended.stdout.splitlines()]


async def main():
    server = StdioServerParameters(command="tenure", args=["mcp"], env=dict(os.environ))
    async with Client(server) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]

        async def call(name, arguments):
            result = await client.call_tool(name, arguments)
            told = {"error": bool(result.is_error), "text": result.content[0].text}
            return told, result.structured_content

        calls = [(await call(name, arguments))[0] for name, arguments in CALLS]
        # The wait ends this run, unless the job has concluded already: then the next run says all of this again, and is answered here.
        _, sent = await call("send", {"agent": "quick", "body": "at once"})
        _, over = await call("wait", {"jobs": [sent["job_id"]]})
        try:
            await client.call_tool("fly", {})
            unknown = None
        except Exception as error:  # what the library raises for an error of the protocol
            unknown = str(error)
    report = {"tools": tools, "calls": calls, "over": over, "unknown": unknown, "nonsense": speak_nonsense()}
    with open(os.environ["TENURE_RESULT"], "w", encoding="utf-8") as result:
        json.dump(report, result)


asyncio.run(main())
