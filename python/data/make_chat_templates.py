"""Conversations as transformers' apply_chat_template renders them.

    python python/data/make_chat_templates.py > tests/fixtures/chat_templates.json

Written with transformers 5.23.0 and jinja2 3.1.6. The templates are short ones with the features of those that models have;
each is rendered for every conversation, also for those that it refuses. The date is the one that expctl gives.
"""

import datetime
import json
import sys

from transformers.utils import chat_template_utils

TEMPLATES = dict(
    chatml="""{%- if messages[0]['role'] != 'system' -%}
{{- '<|im_start|>system\\nBe brief.<|im_end|>\\n' -}}
{%- endif -%}
{%- for message in messages %}
    {%- if message.role == 'assistant' and message.tool_calls %}
        {{- '<|im_start|>' + message.role }}
        {%- for call in message.tool_calls %}
            {%- set call = call.function if call.function is defined else call %}
            {{- '\\n<tool_call>\\n{"name": "' ~ call.name ~ '", "arguments": ' ~ (call.arguments | tojson) ~ '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
""",
    thinking="""{%- set ns = namespace(last=messages|length - 1, seen=false) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if not ns.seen and message.role == 'user' and message.content is string and not (message.content.startswith('<tool>') and message.content.endswith('</tool>')) %}
        {%- set ns.seen = true %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- set thought = '' %}
    {%- if message.role == 'assistant' %}
        {%- if message.reasoning_content is string %}
            {%- set thought = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last and (loop.last or thought) %}
            {{- '<|im_start|>assistant\\n<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>assistant\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
""",
    headers="""{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- if strftime_now is defined %}
    {%- set date_string = strftime_now("%d %b %Y") %}
{%- else %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
        {{- message.tool_calls[0].function | tojson(indent=4) }}
        {{- "<|eot_id|>" }}
    {%- else %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or (message.content is iterable and message.content is not string) %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
""",
    brackets="""{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.tool_calls is defined) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("Roles must alternate user/assistant/user/assistant/...") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- endif %}
{%- endfor %}
""",
    turns="""{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate') }}{% endif %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '
' + message['content'] | trim + '<end_of_turn>
' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model
'}}{% endif %}""",
    roles="""{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}{{'<|system|>
' + message['content'] + '<|end|>
'}}{% elif message['role'] == 'user' %}{{'<|user|>
' + message['content'] + '<|end|>
'}}{% elif message['role'] == 'assistant' and message['content'] %}{{'<|assistant|>
' + message['content'] + '<|end|>
'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>
' }}{% else %}{{ eos_token }}{% endif %}""",
    lines="""{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>
'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}
""",
    generation="""{% for message in messages %}
    {% if message.role == 'assistant' %}
        {{- '<|assistant|>' }}
        {%- generation %}
        {{- message.content or '' }}{{ eos_token }}
        {%- endgeneration %}
    {% else %}
        {{- '<|' ~ message.role ~ '|>' ~ message.content }}
    {% endif %}
    {{- '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}
""",
    python="""{%- macro part(name, value='none') %}[{{ name | upper }}={{ value }}]{% endmacro %}
{%- for message in messages %}
    {%- if message.role == 'tool' %}{% continue %}{% endif %}
    {%- if loop.index0 == 3 %}{% break %}{% endif %}
    {%- for key, value in message.items() if key != 'tool_calls' and value is string %}
        {{- part(key, value.replace('a', 'A').title() if loop.first else value[:6]) }}
    {%- endfor %}
    {{- part('call', message.get('tool_calls', [])) }}
    {{- part('flags', [true, none, 1.5, 7 // 2, loop.first and not loop.last]) }}
    {{- part('pair', 'a-b'.split('-') | join('+')) }}{{ part(name='x') }}
    {{- {'role': message.role, 'n': loop.length} | tojson }}
    {{- (message.content | default('nothing', true))|length if message.content is defined else 'no content' }}
    {{- (messages | selectattr('role', 'equalto', 'user') | list | length) ~ '\\n' }}
{%- endfor %}
""",
)

USER = dict(role="user", content="  What floats,\nand why? 漢字 ")
ASSISTANT = dict(role="assistant", content="A cork: it's <light> & \"dry\".\n")
SYSTEM = dict(role="system", content="Answer in a line. ")
CALL = dict(type="function", function=dict(name="look_up", arguments=dict(word="cork", most=2, exact=True)))

CONVERSATIONS = [
    [USER],
    [USER, ASSISTANT],
    [SYSTEM, USER, ASSISTANT, dict(role="user", content="And lead?"), dict(role="assistant", content="It sinks.")],
    [USER, dict(role="assistant", content=None, tool_calls=[CALL]), dict(role="tool", content="light wood"), ASSISTANT],
    [USER, dict(role="assistant", content="<think>\nWood is light.\n</think>\n\nA cork.")],
    [USER, dict(role="assistant", content="A cork.", reasoning="Wood floats.")],
    [ASSISTANT, USER],
]


class Day(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 26)


chat_template_utils.datetime = Day


def rendered(template, messages, prompt):
    """The text with the byte ranges of what is generated, or the exception that was raised."""
    messages = [{key: value for key, value in message.items() if value is not None} for message in messages]
    try:
        texts, ranges = chat_template_utils.render_jinja_template(
            [messages],
            chat_template=template,
            add_generation_prompt=prompt,
            return_assistant_tokens_mask="{%- generation" in template,
            bos_token="<s>",
            eos_token="</s>",
        )
    except Exception as error:
        return dict(error=str(error))
    text = texts[0]
    bytes_of = lambda at: len(text[:at].encode())
    return dict(text=text, parts=[[bytes_of(at) for at in part] for part in (ranges[0] if ranges else [])])


cases = []
for name, template in TEMPLATES.items():
    for conversation, messages in enumerate(CONVERSATIONS):
        for prompt in [False, True]:
            outcome = rendered(template, messages, prompt)
            cases.append(dict(template=name, conversation=conversation, add_generation_prompt=prompt, **outcome))
golden = dict(templates=TEMPLATES, conversations=CONVERSATIONS, cases=cases)
json.dump(golden, sys.stdout, ensure_ascii=False, indent=1)
print()
