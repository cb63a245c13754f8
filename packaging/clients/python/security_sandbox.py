"""A thin client of sjail: every answer is sjail's, nothing is decided here.

    sandbox = SecuritySandbox(project_dir)
    is_safe, reason = sandbox.validate_command("npm install")
"""

import asyncio
import json
import os
import subprocess
from dataclasses import dataclass
from typing import Optional


class SandboxError(RuntimeError):
    """sjail could not be asked; whatever was to be done must not be done."""


@dataclass
class Event:
    """A decision in the log."""

    timestamp: str
    action: str
    command: Optional[str]
    reason: Optional[str]


class SecuritySandbox:
    """The policy that holds in a project, as `sjail` sees it."""

    def __init__(self, project_dir, sjail=None):
        self.project_dir = os.path.abspath(project_dir)
        self.sjail = sjail or os.environ.get("SJAIL", "sjail")
        self._only = []

    def _call(self, *words, stdin=""):
        try:
            return subprocess.run(
                [self.sjail, *words], cwd=self.project_dir, input=stdin, text=True, capture_output=True, check=False
            )
        except OSError as error:
            if not os.path.isdir(self.project_dir):
                raise SandboxError(f"sjail cannot be asked: there is no folder {self.project_dir}") from error
            raise SandboxError(
                f"sjail cannot be started: {error}; install it, or name it in the variable SJAIL"
            ) from error

    def _json(self, *words, stdin=""):
        done = self._call(*words, stdin=stdin)
        try:
            return json.loads(done.stdout)
        except ValueError as error:
            raise SandboxError(done.stderr.strip() or "sjail gave no answer") from error

    async def initialize(self):
        """Reads the policy; an error in it is raised here."""
        done = await asyncio.to_thread(self._call, "policy", "check")
        if done.returncode != 0:
            raise SandboxError(done.stderr.strip())
        return self

    def validate_command(self, command):
        """`(True, None)` if it would run without being asked about, else `(False, reason)`."""
        answer = self._json("check", "--jsonl", *self._only, stdin=json.dumps({"command": command}) + "\n")
        if answer["suggested_action"] == "execute":
            return True, None
        return False, ", ".join(answer["risk_reasons"]) or answer["rule"]

    def validate_path(self, path, operation="read"):
        """Whether the path may be read, written or edited."""
        return self._json("check", "--json", f"--path={path}", f"--op={operation}")["allowed"]

    def configure_allowlist(self, commands):
        """Puts commands on the allow list of sjail, for good; what is not among them is refused by this
        object from now on. For every program a project's `.claude/security-config.json` says so."""
        # Also an empty list is one: nothing has that name.
        self._only = ["--only="]
        for command in commands:
            self.add_allowed_command(command)

    def add_allowed_command(self, command):
        """Puts one command on the allow list of sjail, for good."""
        done = self._call("allowlist", "add", command, "--reason", "added by a client")
        if done.returncode != 0:
            raise SandboxError(done.stderr.strip())
        if self._only:
            self._only.append(f"--only={command}")

    def create_pre_tool_hook(self):
        """A hook that answers `{}` or `{"decision": "block", "reason": …}`; an error blocks."""

        async def hook(input_data, tool_use_id=None, context=None):
            question = dict(input_data)
            question.setdefault("cwd", self.project_dir)
            try:
                done = await asyncio.to_thread(self._call, "hook", "plain", *self._only, stdin=json.dumps(question))
                if done.returncode != 0:
                    return {"decision": "block", "reason": done.stderr.strip()}
                return json.loads(done.stdout)
            except (SandboxError, ValueError, TypeError) as error:
                return {"decision": "block", "reason": str(error)}

        return hook

    def get_audit_log(self, limit=100):
        """The newest decisions, the oldest of them first."""
        done = self._call("audit", "export", "--format", "decisions")
        if done.returncode == 1:
            # There is no log yet: nothing has run.
            return []
        if done.returncode != 0:
            raise SandboxError(done.stderr.strip())
        lines = done.stdout.splitlines()
        newest = lines[max(len(lines) - limit, 0) :]
        return [Event(**json.loads(line)) for line in newest]
