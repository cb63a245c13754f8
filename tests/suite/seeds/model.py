"""A model that reasons about nothing: it follows a script, on the loopback, in the four tongues that agents speak.

model.py SCRIPT LOG: SCRIPT is a JSON list of {"tool", "input"} (or "text" for a tool that takes plain
text). To each request that offers tools it answers with the next one that has no result yet, and with a
word once there is none left. The results that came are written to LOG, a JSON line for each request.
The port is printed.
"""
import http.server
import json
import socketserver
import sys

SCRIPT, LOG = sys.argv[1:3]


def results(body):
    """The tools' results that the request brings along, in whichever tongue, as texts."""
    found = []
    for message in body.get("messages", []):
        parts = message.get("content")
        if message.get("role") == "tool":
            found.append(parts)
        elif isinstance(parts, list):
            found += [part.get("content") for part in parts if part.get("type") == "tool_result"]
    for item in items(body):
        if str(item.get("type")).endswith("call_output"):
            found.append(item.get("output"))
    for content in body.get("contents", []):
        parts = [part["functionResponse"] for part in content.get("parts", []) if "functionResponse" in part]
        found += [part.get("response") for part in parts]
    return [result if isinstance(result, str) else json.dumps(result) for result in found]


def items(body):
    return body["input"] if isinstance(body.get("input"), list) else []


def messages(step, number):
    """Anthropic's Messages."""
    yield "message_start", {"message": {
        "id": f"msg_{number}", "type": "message", "role": "assistant", "model": "m", "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}}
    if step:
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": step["tool"], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(step["input"])}
    else:
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": "done"}
    yield "content_block_start", {"index": 0, "content_block": block}
    yield "content_block_delta", {"index": 0, "delta": delta}
    yield "content_block_stop", {"index": 0}
    reason = "tool_use" if step else "end_turn"
    yield "message_delta", {"delta": {"stop_reason": reason, "stop_sequence": None},
                            "usage": {"output_tokens": 1}}
    yield "message_stop", {}


def responses(step, number):
    """OpenAI's Responses."""
    yield "response.created", {"response": {"id": f"resp_{number}"}}
    if not step:
        item = {"type": "message", "role": "assistant", "id": f"m{number}",
                "content": [{"type": "output_text", "text": "done", "annotations": []}]}
    elif "text" in step:
        item = {"type": "custom_tool_call", "call_id": f"call_{number}", "name": step["tool"],
                "input": step["text"]}
    else:
        item = {"type": "function_call", "call_id": f"call_{number}", "name": step["tool"],
                "arguments": json.dumps(step["input"])}
    yield "response.output_item.done", {"output_index": 0, "item": item}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2,
             "input_tokens_details": None, "output_tokens_details": None}
    yield "response.completed", {"response": {"id": f"resp_{number}", "usage": usage}}


def completions(step, number):
    """The older form of OpenAI's, which others speak, too."""
    def piece(delta, reason=None):
        return "", {"id": f"c{number}", "object": "chat.completion.chunk", "created": 0, "model": "m",
                    "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
    if step:
        yield piece({"role": "assistant", "tool_calls": [{
            "index": 0, "id": f"call_{number}", "type": "function",
            "function": {"name": step["tool"], "arguments": json.dumps(step["input"])}}]})
    else:
        yield piece({"role": "assistant", "content": "done"})
    yield piece({}, "tool_calls" if step else "stop")


def generated(step, _):
    """Gemini's."""
    part = {"functionCall": {"name": step["tool"], "args": step["input"]}} if step else {"text": "done"}
    yield "", {"candidates": [{"index": 0, "finishReason": "STOP",
                               "content": {"role": "model", "parts": [part]}}],
               "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}}


class Model(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send_error(404)

    def do_POST(self):
        text = self.rfile.read(int(self.headers.get("content-length") or 0))
        body = json.loads(text) if text.startswith(b"{") else {}
        path = self.path.split("?")[0]
        known = results(body)
        number = len(known)
        with open(LOG, "a", encoding="utf8") as log:
            log.write(json.dumps({"path": path, "results": known}) + "\n")
        with open(SCRIPT, encoding="utf8") as script:
            steps = json.load(script)
        tools = body.get("tools") or any(item.get("type") == "additional_tools" for item in items(body))
        step = steps[number] if tools and number < len(steps) else None
        if path.endswith("/count_tokens") or path.endswith(":countTokens"):
            return self.say("application/json", b'{"input_tokens": 1, "totalTokens": 1}')
        if path.endswith("/messages"):
            events = messages(step, number)
        elif path.endswith("/responses"):
            events = responses(step, number)
        elif path.endswith("/completions"):
            events = completions(step, number)
        elif path.endswith("enerateContent"):
            events = generated(step, number)
        else:
            return self.say("application/json", b"{}")
        if path.endswith(":generateContent"):
            return self.say("application/json", json.dumps(next(events)[1]).encode())
        if path.endswith("/messages") and not body.get("stream"):
            whole = dict(next(events)[1]["message"], stop_reason="end_turn")
            whole["content"] = [{"type": "text", "text": "done"}]
            return self.say("application/json", json.dumps(whole).encode())
        out = b""
        for name, event in events:
            if name:
                event["type"] = name
                out += f"event: {name}\n".encode()
            out += b"data: " + json.dumps(event).encode() + b"\n\n"
        if path.endswith("/completions"):
            out += b"data: [DONE]\n\n"
        return self.say("text/event-stream", out)

    def say(self, kind, text):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True


server = Server(("127.0.0.1", 0), Model)
print(server.server_port, flush=True)
server.serve_forever()
