complete -c qrerun -s W -d 'force: accepted for compatibility with PBS; has no effect: the job is requeued when its node reports the end of the attempt' -r
complete -c qrerun -l failed -d 'Rerun the failed subjobs of these arrays; running subjobs continue'
