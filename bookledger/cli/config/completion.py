"""`bookledger completion`: shell completion of commands and options."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from ..messages.help import command

PROGRAM = "bookledger"
VARIABLE = "_BOOKLEDGER_COMPLETE"
"""The environment variable that click's shell function sets when it calls the program."""

WITH_COMPDEF = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }"
"""Loads zsh's completion, which is off by default; click's script assumes that it is on."""

SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@command()
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that makes a shell complete commands and options on TAB.

    bash: eval "$(bookledger completion bash)" in ~/.bashrc; zsh: eval "$(bookledger completion zsh)" in ~/.zshrc;
    fish: bookledger completion fish > ~/.config/fish/completions/bookledger.fish

    Examples:
        bookledger completion bash
        bookledger completion fish > ~/.config/fish/completions/bookledger.fish
    """
    whole = context.find_root().command
    complete = SHELLS[shell](whole, {}, PROGRAM, VARIABLE)
    # Not `source()`, which runs bash to find out its version: the machine may not have bash.
    source = complete.source_template % complete.source_vars()
    click.echo(source.replace("\n", f"\n{WITH_COMPDEF}\n", 1) if shell == "zsh" else source)
