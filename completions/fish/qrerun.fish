complete -c qrerun -s W -d 'force: at once, whatever the node says' -r
complete -c qrerun -l failed -d 'Run the failed subjobs of these arrays once more; nothing that runs is ended'
