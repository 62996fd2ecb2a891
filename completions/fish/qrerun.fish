complete -c qrerun -s W -d 'force: requeue the job immediately, without waiting for the node' -r
complete -c qrerun -l failed -d 'Rerun the failed subjobs of these arrays; running subjobs continue'
