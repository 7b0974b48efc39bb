from feather_ref.codec import *
