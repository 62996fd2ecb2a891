# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_lanai_global_optspecs
    string join \n json color= h/help V/version
end

function __fish_lanai_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_lanai_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_lanai_using_subcommand
    set -l cmd (__fish_lanai_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c lanai -n "__fish_lanai_needs_command" -l color -d 'When to use colors' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c lanai -n "__fish_lanai_needs_command" -l json -d 'Print JSON instead of text'
complete -c lanai -n "__fish_lanai_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lanai -n "__fish_lanai_needs_command" -s V -l version -d 'Print version'
complete -c lanai -n "__fish_lanai_needs_command" -f -a "list" -d 'List jobs: by default your unfinished jobs'
complete -c lanai -n "__fish_lanai_needs_command" -f -a "ls" -d 'List jobs: by default your unfinished jobs'
complete -c lanai -n "__fish_lanai_needs_command" -f -a "history" -d 'List finished jobs: by default your jobs of the last seven days'
complete -c lanai -n "__fish_lanai_needs_command" -f -a "show" -d 'Show all facts about jobs'
complete -c lanai -n "__fish_lanai_needs_command" -f -a "why" -d 'Explain why jobs wait, and when they are expected to start'
complete -c lanai -n "__fish_lanai_needs_command" -f -a "nodes" -d 'List the nodes, their free resources and their jobs'
complete -c lanai -n "__fish_lanai_using_subcommand list" -s o -l columns -d 'Columns, such as id,name,state' -r
complete -c lanai -n "__fish_lanai_using_subcommand list" -l sort -d 'Sort by these columns; a minus sign before a column reverses its order' -r
complete -c lanai -n "__fish_lanai_using_subcommand list" -l color -d 'When to use colors' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c lanai -n "__fish_lanai_using_subcommand list" -s a -l all -d 'Jobs of all users'
complete -c lanai -n "__fish_lanai_using_subcommand list" -s t -l subjobs -d 'Show the subjobs of arrays'
complete -c lanai -n "__fish_lanai_using_subcommand list" -l json -d 'Print JSON instead of text'
complete -c lanai -n "__fish_lanai_using_subcommand list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lanai -n "__fish_lanai_using_subcommand ls" -s o -l columns -d 'Columns, such as id,name,state' -r
complete -c lanai -n "__fish_lanai_using_subcommand ls" -l sort -d 'Sort by these columns; a minus sign before a column reverses its order' -r
complete -c lanai -n "__fish_lanai_using_subcommand ls" -l color -d 'When to use colors' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c lanai -n "__fish_lanai_using_subcommand ls" -s a -l all -d 'Jobs of all users'
complete -c lanai -n "__fish_lanai_using_subcommand ls" -s t -l subjobs -d 'Show the subjobs of arrays'
complete -c lanai -n "__fish_lanai_using_subcommand ls" -l json -d 'Print JSON instead of text'
complete -c lanai -n "__fish_lanai_using_subcommand ls" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lanai -n "__fish_lanai_using_subcommand history" -s n -l limit -d 'Show at most this number of jobs' -r
complete -c lanai -n "__fish_lanai_using_subcommand history" -l since -d 'Jobs that ended in this period (default 7d)' -r
complete -c lanai -n "__fish_lanai_using_subcommand history" -s o -l columns -d 'Columns, such as id,name,state' -r
complete -c lanai -n "__fish_lanai_using_subcommand history" -l sort -d 'Sort by these columns; a minus sign before a column reverses its order' -r
complete -c lanai -n "__fish_lanai_using_subcommand history" -l color -d 'When to use colors' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c lanai -n "__fish_lanai_using_subcommand history" -s a -l all -d 'Jobs of all users'
complete -c lanai -n "__fish_lanai_using_subcommand history" -s t -l subjobs -d 'Show the subjobs of arrays'
complete -c lanai -n "__fish_lanai_using_subcommand history" -l json -d 'Print JSON instead of text'
complete -c lanai -n "__fish_lanai_using_subcommand history" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lanai -n "__fish_lanai_using_subcommand show" -l color -d 'When to use colors' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c lanai -n "__fish_lanai_using_subcommand show" -l json -d 'Print JSON instead of text'
complete -c lanai -n "__fish_lanai_using_subcommand show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lanai -n "__fish_lanai_using_subcommand why" -l color -d 'When to use colors' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c lanai -n "__fish_lanai_using_subcommand why" -s v -l verbose -d 'Show every obstacle at every stage, not only the first one'
complete -c lanai -n "__fish_lanai_using_subcommand why" -l json -d 'Print JSON instead of text'
complete -c lanai -n "__fish_lanai_using_subcommand why" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lanai -n "__fish_lanai_using_subcommand nodes" -l color -d 'When to use colors' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set'
always\t'Always'
never\t'Never'"
complete -c lanai -n "__fish_lanai_using_subcommand nodes" -l json -d 'Print JSON instead of text'
complete -c lanai -n "__fish_lanai_using_subcommand nodes" -s h -l help -d 'Print help (see more with \'--help\')'
