/* SPDX-License-Identifier: Apache-2.0 */
#include "console/folders.h"
#include "host/host.h"

#include <sys/stat.h>

bool weft_search_is_users(weft_search *search, const char *name)
{
    weft_found found;
    const char *path;
    if (weft_search_locate(search, name, WEFT_NOWHERE, &found, &path, NULL) != WEFT_OK || !path)
        return false;
    for (int i = 0; i < search->n_user; i++)
        if (weft_folder_holds(&search->folders[i], path))
            return true;
    return false;
}

const char *weft_search_folder(const weft_search *search, int i)
{
    return i >= 0 && i < search->n_folders ? search->folders[i].real : NULL;
}

const char *weft_search_copy(weft_search *search, const char *name, int i)
{
    struct stat st;
    for (int k = 0; k < search->n_folders; k++) {
        char *path = weft_folder_file(&search->folders[k], name);
        if (!path)
            return NULL;
        bool counts = stat(path, &st) == 0 && S_ISREG(st.st_mode) && i-- == 0;
        const char *found = counts ? weft_pool_strdup(&search->pool, path) : NULL;
        weft_free(path);
        if (counts)
            return found;
    }
    return NULL;
}
