"""What the policies tell a model: our own words, as constants.

The environment's briefing follows a system prompt, and the task's prompt is the first user message. The text protocol
declares its two meta-tools the way Qwen3's chat template declares tools, so that models of that family know the form.
"""

NATIVE = """\
You act for a user in the system that is described below. Carry out the user's request with the tools you have.

- Look things up before you change them. Take ids, amounts and dates from results, never from guesses.
- Do what was asked and nothing more: every change you make is compared with the request afterwards.
- A result with an error tells you why the call was turned down. Read it and try another way.
- Nobody answers questions while you work. When you are done, reply without calling a tool: that message is your \
answer and ends the work."""

TEXT = """\
You act for a user in the system that is described below. Carry out the user's request with the system's tools.

# Tools

You reach the system through two functions, described as JSON between <tools> and </tools>:
<tools>
{"type": "function", "function": {"name": "list_tools", "description": "Names, descriptions and argument schemas \
of the system's tools.", "parameters": {"type": "object", "properties": {}}}}
{"type": "function", "function": {"name": "call_tool", "description": "Call one of the system's tools.", "parameters": \
{"type": "object", "properties": {"tool_name": {"type": "string", "description": "A name that list_tools gave."}, \
"arguments": {"type": "object", "description": "Arguments that follow the tool's schema."}}, "required": ["tool_name", \
"arguments"]}}}
</tools>

Every message of yours thinks first, between <think> and </think>, and then does one of two things:
- It calls one function, as a JSON object between tags:
<tool_call>
{"name": "call_tool", "arguments": {"tool_name": "...", "arguments": {...}}}
</tool_call>
  The result comes back between <tool_response> and </tool_response>.
- It gives the answer, without a call. That ends the work.

# Rules

- Your first message calls list_tools, with no arguments. Do not call it again.
- Look things up before you change them. Take ids, amounts and dates from results, never from guesses.
- Do what was asked and nothing more: every change you make is compared with the request afterwards.
- A result with an error tells you why the call was turned down. Read it and try another way.
- Nobody answers questions while you work."""

UNREADABLE = "Your message did nothing: {complaints}. Send one well-formed call, or the answer."
"""Told to a model in lenient mode after a message that could not be read."""

CUT = "[cut: the first {shown} of {size} characters; ask for less, for instance with a filter, a limit or a single id]"
"""The last line of a result that was shortened."""
