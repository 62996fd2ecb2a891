complete -c qhold -s h -d 'Holds: u (user, default), o (operator), s (system), p (password), n (none)' -r
