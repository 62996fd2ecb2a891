# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_qsim_global_optspecs
    string join \n h/help V/version
end

function __fish_qsim_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_qsim_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_qsim_using_subcommand
    set -l cmd (__fish_qsim_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c qsim -n "__fish_qsim_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c qsim -n "__fish_qsim_needs_command" -s V -l version -d 'Print version'
complete -c qsim -n "__fish_qsim_needs_command" -f -a "check" -d 'Run scenarios and compare the scheduler\'s decisions with the expected decisions'
complete -c qsim -n "__fish_qsim_needs_command" -f -a "replay" -d 'Replay a trace in Standard Workload Format and report when the jobs in it would have started'
complete -c qsim -n "__fish_qsim_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c qsim -n "__fish_qsim_using_subcommand check" -s F -l format -d 'Output format: text, or json for one document with all differences' -r -f -a "text\t''
json\t''"
complete -c qsim -n "__fish_qsim_using_subcommand check" -l recorded -d 'Repeat the cycles that schedd recorded ([cycle] record in lanai.toml), and compare the decisions; the wording of reasons may differ' -r -F
complete -c qsim -n "__fish_qsim_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c qsim -n "__fish_qsim_using_subcommand replay" -l nodes -d 'Number of nodes (default: 1; with --cores-per-node, the processors of the trace divided by C)' -r
complete -c qsim -n "__fish_qsim_using_subcommand replay" -l cores-per-node -d 'Number of processors of each node (default: the processors of the trace divided by the number of nodes)' -r
complete -c qsim -n "__fish_qsim_using_subcommand replay" -l preset -d 'Use the policy of a preset' -r -f -a "hybrid\t''
qube\t''
maui\t''
it4i\t''
ytsaurus\t''
flux\t''"
complete -c qsim -n "__fish_qsim_using_subcommand replay" -l config -d 'Use the policy of this lanai.toml, without its nodes' -r -F
complete -c qsim -n "__fish_qsim_using_subcommand replay" -l policy -d 'Use the order and backfill of a policy from the literature, instead of the order and backfill of the preset or configuration' -r -f -a "fcfs\t''
easy\t''
easy-sjbf\t''
conservative\t''
lxf+easy\t''
lxf+easy-sjbf\t''
wfp3+easy\t''"
complete -c qsim -n "__fish_qsim_using_subcommand replay" -l from -d 'Index of the first job to run (the first job of the trace has index 0)' -r
complete -c qsim -n "__fish_qsim_using_subcommand replay" -l first -d 'Number of jobs to run (default: all)' -r
complete -c qsim -n "__fish_qsim_using_subcommand replay" -l jobs-out -d 'Write the starts as CSV: job,submit,start,end,procs,nodes,via' -r -F
complete -c qsim -n "__fish_qsim_using_subcommand replay" -l plot -d 'Draw the schedule and the utilization over time as SVG into this file' -r -F
complete -c qsim -n "__fish_qsim_using_subcommand replay" -l summary -d 'Format of the summary' -r -f -a "text\t'One figure per line, with its unit'
json\t'JSON; times in seconds'"
complete -c qsim -n "__fish_qsim_using_subcommand replay" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c qsim -n "__fish_qsim_using_subcommand help; and not __fish_seen_subcommand_from check replay help" -f -a "check" -d 'Run scenarios and compare the scheduler\'s decisions with the expected decisions'
complete -c qsim -n "__fish_qsim_using_subcommand help; and not __fish_seen_subcommand_from check replay help" -f -a "replay" -d 'Replay a trace in Standard Workload Format and report when the jobs in it would have started'
complete -c qsim -n "__fish_qsim_using_subcommand help; and not __fish_seen_subcommand_from check replay help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
