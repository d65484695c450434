
# Completes the names of releases, which clap cannot list: tarpon release activate DIR NAME.
_tarpon_with_releases() {
    local line=${COMP_LINE:0:COMP_POINT} words word at dir='' count=0 current='' name
    # Without -r, read removes the backslashes before spaces.
    # shellcheck disable=SC2162
    IFS=$' \t' read -a words <<< "$line"
    [[ $line == *[[:space:]] && $line != *\\[[:space:]] ]] && words+=('')
    if [[ ${words[1]} == release && ${words[2]} == activate ]]; then
        for ((at = 3; at < ${#words[@]} - 1; at++)); do
            word=${words[at]}
            [[ $word == -* ]] || { ((count == 0)) && dir=$word; ((count += 1)); }
        done
        current=${words[${#words[@]} - 1]}
    fi
    if ((count != 1)) || [[ $current == -* ]]; then
        _tarpon "$@"
        return
    fi
    COMPREPLY=()
    dir=${dir//[\"\']/}
    [[ $dir == '~' || $dir == '~/'* ]] && dir=$HOME${dir:1}
    while IFS= read -r name; do
        [[ $name == "$current"* ]] || continue
        # Bash completes only what follows the last character that breaks words.
        [[ $COMP_WORDBREAKS == *:* && $current == *:* ]] && name=${name#"${current%:*}:"}
        COMPREPLY+=("$(printf '%q' "$name")")
    done < <("$1" release list --names "$dir" 2> /dev/null)
}

if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -F _tarpon_with_releases -o nosort -o bashdefault -o default tarpon
else
    complete -F _tarpon_with_releases -o bashdefault -o default tarpon
fi
